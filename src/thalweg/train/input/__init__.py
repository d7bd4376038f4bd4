"""Input by queues: producers, batches, queue runners; Example messages."""
