"""Convolutional networks of the papers: in each module `logits(images, num_classes, training)` and `IMAGE_SIZE`.

Images are [batch, height, width, 3]. `training` turns on dropout and the statistics of the batch; it may be a tensor.
Run the operations in `tf.GraphKeys.UPDATE_OPS` with each step to update the moving averages of batch normalization.
"""

NAMES = ("alexnet", "overfeat", "vgg_a", "googlenet", "inception_v3", "resnet_50")
