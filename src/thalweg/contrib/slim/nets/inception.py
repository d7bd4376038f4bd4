"""All inception networks under one name: `nets.inception.inception_v3`. They export themselves here."""
