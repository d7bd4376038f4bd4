"""Older names of the classes and functions of `tf.layers`, as its files have them."""

from thalweg.contrib.public_names import tf

Convolution1D, Convolution2D, Convolution3D = tf.layers.Conv1D, tf.layers.Conv2D, tf.layers.Conv3D
SeparableConvolution1D, SeparableConvolution2D = tf.layers.SeparableConv1D, tf.layers.SeparableConv2D
Convolution2DTranspose = Deconvolution2D = Deconv2D = tf.layers.Conv2DTranspose
Convolution3DTranspose = Deconvolution3D = Deconv3D = tf.layers.Conv3DTranspose
convolution1d, convolution2d, convolution3d = tf.layers.conv1d, tf.layers.conv2d, tf.layers.conv3d
separable_convolution2d = tf.layers.separable_conv2d
convolution2d_transpose = deconvolution2d = deconv2d = tf.layers.conv2d_transpose
convolution3d_transpose = deconvolution3d = deconv3d = tf.layers.conv3d_transpose
MaxPool1D, MaxPool2D, MaxPool3D = tf.layers.MaxPooling1D, tf.layers.MaxPooling2D, tf.layers.MaxPooling3D
AvgPool1D, AvgPool2D, AvgPool3D = tf.layers.AveragePooling1D, tf.layers.AveragePooling2D, tf.layers.AveragePooling3D
max_pool2d, avg_pool2d = tf.layers.max_pooling2d, tf.layers.average_pooling2d
BatchNorm = tf.layers.BatchNormalization
batch_norm = tf.layers.batch_normalization
