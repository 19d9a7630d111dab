"""How good recommendations are, measured on purchases that were held out."""
