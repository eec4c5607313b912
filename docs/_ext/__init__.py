"""Extensions of the documentation: pages that are made from the code, so that they cannot say something else."""
