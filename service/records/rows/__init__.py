"""Rows of every program: their fields, forms and answers."""
