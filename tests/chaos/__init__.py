"""Agents, people and accidents on one memory at once, and then the account: what was lost?"""
