"""Routes that speak trainers' own HTTP: thin translations to the native request, and of its scores to their reply."""
