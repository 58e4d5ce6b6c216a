"""Linear models: competitors, referee, tables of curves and of goals, picture."""
