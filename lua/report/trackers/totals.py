"""The numbers of a whole run, which the Trainer's callbacks do not show over the steps."""

TOTALS = {
    "train_runtime",
    "train_samples_per_second",
    "train_steps_per_second",
    "train_loss",
    "total_flos",
}
