"""A step of training, composed: templates of the model's parts, a sharding strategy and an optimizer, in order."""
