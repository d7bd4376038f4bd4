"""What programs say about devices beyond `tf.device`: memory limits, compressed transfers, plug-ins."""
