"""Which prompts to train on: those whose success rate in a run's logs lies in a band."""
