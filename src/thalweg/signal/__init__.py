"""`tf.signal`: windows, frames, short-time Fourier and cosine transforms, mel scales. Loaded when first used."""
