"""Language models as judges, at OpenAI-compatible addresses: what Llam-Eval and REA-ERR ask them."""
