"""An open payment that changes hands: the team of ``docs/tutorial/open-payment.md``."""
