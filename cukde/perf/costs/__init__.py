"""Cost formulas, a module a family of operations; the operations declare them where they are defined."""
