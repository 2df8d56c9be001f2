"""What an agent learns by itself: extraction of what a turn taught, consolidation with what is known, a durable queue."""
