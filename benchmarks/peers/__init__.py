"""Rivals as optional imports: each module offers ``sd_kde(X, Y, h)`` (and more) on CuPy arrays, float32."""
