"""Tables, charts and pages of reports, without the words and figures in them."""
