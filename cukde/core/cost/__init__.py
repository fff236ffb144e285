"""What an operation costs: parts, peaks and the registry of formulas."""
