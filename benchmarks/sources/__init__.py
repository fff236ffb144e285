"""The sources' tables and figures, measured anew on the hardware that is there: ``cukde bench --suite sources``."""
