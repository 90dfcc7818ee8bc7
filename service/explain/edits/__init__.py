"""Edits of a response that may raise its reward, tried one by one."""
