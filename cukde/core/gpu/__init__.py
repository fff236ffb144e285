"""Arrays on a device, compilation, launches."""
