"""The papers on contextual queueing bandits, measured: rates, ablations, claims."""
