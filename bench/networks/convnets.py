"""Seven convolutional networks, with the sizes of their papers: `network(net, images)` returns the logits.

A net has: conv(x, channels, size, stride, pad, relu), bn_conv (with batch normalization instead of a bias), max_pool,
avg_pool, global_pool, lrn, concat, add_relu, flatten, dense(x, size, relu). Paddings are symmetric numbers.
"""


def lenet(net, x):
    """28 x 28 x 1. Two convolutions, two dense layers."""
    x = net.max_pool(net.conv(x, 32, 5, pad=2), 2, 2)
    x = net.max_pool(net.conv(x, 64, 5, pad=2), 2, 2)
    return net.dense(net.dense(net.flatten(x), 1024), 10, relu=False)


def alexnet(net, x):
    """224 x 224 x 3, as in the convnet benchmarks ("one weird trick", one tower)."""
    x = net.max_pool(net.conv(x, 64, 11, stride=4, pad=2), 3, 2)
    x = net.max_pool(net.conv(x, 192, 5, pad=2), 3, 2)
    x = net.conv(net.conv(net.conv(x, 384, 3, pad=1), 256, 3, pad=1), 256, 3, pad=1)
    x = net.flatten(net.max_pool(x, 3, 2))
    return net.dense(net.dense(net.dense(x, 4096), 4096), 1000, relu=False)


def overfeat(net, x):
    """231 x 231 x 3: the fast model."""
    x = net.max_pool(net.conv(x, 96, 11, stride=4), 2, 2)
    x = net.max_pool(net.conv(x, 256, 5), 2, 2)
    x = net.conv(net.conv(net.conv(x, 512, 3, pad=1), 1024, 3, pad=1), 1024, 3, pad=1)
    x = net.flatten(net.max_pool(x, 2, 2))
    return net.dense(net.dense(net.dense(x, 3072), 4096), 1000, relu=False)


def vgg_a(net, x):
    """224 x 224 x 3: eight convolutions of 3 x 3, three dense layers."""
    for channels, convolutions in ((64, 1), (128, 1), (256, 2), (512, 2), (512, 2)):
        for _ in range(convolutions):
            x = net.conv(x, channels, 3, pad=1)
        x = net.max_pool(x, 2, 2)
    return net.dense(net.dense(net.dense(net.flatten(x), 4096), 4096), 1000, relu=False)


def _inception(net, x, one, three, five, pool):
    return net.concat(
        [
            net.conv(x, one, 1),
            net.conv(net.conv(x, three[0], 1), three[1], 3, pad=1),
            net.conv(net.conv(x, five[0], 1), five[1], 5, pad=2),
            net.conv(net.max_pool(x, 3, 1, pad=1), pool, 1),
        ]
    )


def googlenet(net, x):
    """224 x 224 x 3: Inception v1 without the auxiliary heads."""
    x = net.lrn(net.max_pool(net.conv(x, 64, 7, stride=2, pad=3), 3, 2, pad=1))
    x = net.conv(net.conv(x, 64, 1), 192, 3, pad=1)
    x = net.max_pool(net.lrn(x), 3, 2, pad=1)
    x = _inception(net, x, 64, (96, 128), (16, 32), 32)
    x = net.max_pool(_inception(net, x, 128, (128, 192), (32, 96), 64), 3, 2, pad=1)
    x = _inception(net, x, 192, (96, 208), (16, 48), 64)
    x = _inception(net, x, 160, (112, 224), (24, 64), 64)
    x = _inception(net, x, 128, (128, 256), (24, 64), 64)
    x = _inception(net, x, 112, (144, 288), (32, 64), 64)
    x = net.max_pool(_inception(net, x, 256, (160, 320), (32, 128), 128), 3, 2, pad=1)
    x = _inception(net, x, 256, (160, 320), (32, 128), 128)
    x = _inception(net, x, 384, (192, 384), (48, 128), 128)
    return net.dense(net.global_pool(x), 1000, relu=False)


def resnet_50(net, x):
    """224 x 224 x 3: bottleneck blocks of 3, 4, 6 and 3, the stride in the 3 x 3 convolution."""
    x = net.max_pool(net.bn_conv(x, 64, 7, stride=2, pad=3), 3, 2, pad=1)
    for stage, blocks in enumerate((3, 4, 6, 3)):
        channels = 64 << stage
        for block in range(blocks):
            stride = 2 if stage and not block else 1
            shortcut = x if block else net.bn_conv(x, 4 * channels, 1, stride=stride, relu=False)
            y = net.bn_conv(x, channels, 1)
            y = net.bn_conv(y, channels, 3, stride=stride, pad=1)
            x = net.add_relu(net.bn_conv(y, 4 * channels, 1, relu=False), shortcut)
    return net.dense(net.global_pool(x), 1000, relu=False)


def inception_v3(net, x):
    """299 x 299 x 3, without the auxiliary head."""
    c = net.bn_conv
    x = c(c(c(x, 32, 3, stride=2), 32, 3), 64, 3, pad=1)
    x = net.max_pool(c(c(net.max_pool(x, 3, 2), 80, 1), 192, 3), 3, 2)
    for pool in (32, 64, 64):
        x = net.concat(
            [
                c(x, 64, 1),
                c(c(x, 48, 1), 64, 5, pad=2),
                c(c(c(x, 64, 1), 96, 3, pad=1), 96, 3, pad=1),
                c(net.avg_pool(x, 3, 1, pad=1), pool, 1),
            ]
        )
    x = net.concat([c(x, 384, 3, stride=2), c(c(c(x, 64, 1), 96, 3, pad=1), 96, 3, stride=2), net.max_pool(x, 3, 2)])
    for n in (128, 160, 160, 192):
        row, column = {"size": (1, 7), "pad": (0, 3)}, {"size": (7, 1), "pad": (3, 0)}
        x = net.concat(
            [
                c(x, 192, 1),
                c(c(c(x, n, 1), n, **row), 192, **column),
                c(c(c(c(c(x, n, 1), n, **column), n, **row), n, **column), 192, **row),
                c(net.avg_pool(x, 3, 1, pad=1), 192, 1),
            ]
        )
    y = c(c(c(x, 192, 1), 192, (1, 7), pad=(0, 3)), 192, (7, 1), pad=(3, 0))
    x = net.concat([c(c(x, 192, 1), 320, 3, stride=2), c(y, 192, 3, stride=2), net.max_pool(x, 3, 2)])
    for _ in range(2):
        middle = c(x, 384, 1)
        deep = c(c(x, 448, 1), 384, 3, pad=1)
        x = net.concat(
            [
                c(x, 320, 1),
                c(middle, 384, (1, 3), pad=(0, 1)),
                c(middle, 384, (3, 1), pad=(1, 0)),
                c(deep, 384, (1, 3), pad=(0, 1)),
                c(deep, 384, (3, 1), pad=(1, 0)),
                c(net.avg_pool(x, 3, 1, pad=1), 192, 1),
            ]
        )
    return net.dense(net.global_pool(x), 1000, relu=False)


# Name: the network, the size of its square images, their channels, and the number of classes.
NETWORKS = {
    "lenet": (lenet, 28, 1, 10),
    "alexnet": (alexnet, 224, 3, 1000),
    "overfeat": (overfeat, 231, 3, 1000),
    "vgg_a": (vgg_a, 224, 3, 1000),
    "googlenet": (googlenet, 224, 3, 1000),
    "inception_v3": (inception_v3, 299, 3, 1000),
    "resnet_50": (resnet_50, 224, 3, 1000),
}
