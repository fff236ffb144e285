"""The positive fourth-order estimate: its correction, the mass that normalises it, its density and score."""
