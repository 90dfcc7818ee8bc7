"""Routes in the formats of trainers: each translates its request to the native one, and the scores to its reply."""
