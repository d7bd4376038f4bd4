"""tf.keras: layers, models and what goes with them, for graph programs. Loaded when first used: `lazy_spaces`."""
