"""Records of every form, read from files of every format."""
