"""The web service: bytes (`wire/`), one request (`request/`), its addresses (`endpoints/`), processes (`process/`)."""
