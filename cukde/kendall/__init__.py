"""Kendall's tau: statistics, p-values and counts of concordant and discordant pairs."""
