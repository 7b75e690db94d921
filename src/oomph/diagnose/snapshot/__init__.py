"""From a memory snapshot to what it says. Modules here need numpy, apart from `model`."""
