"""How near predictions are to measured points: reading the points, asking for predictions, scoring them."""
