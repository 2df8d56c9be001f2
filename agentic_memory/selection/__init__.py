"""Which memories matter now: the query, the candidates, the pick."""
