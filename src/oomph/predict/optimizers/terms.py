"""Which page of docs/terms explains a block that a stepper allocates, by the block's name."""

from __future__ import annotations

from oomph.predict.optimizers import adafactor, adam, bnb, clip, lion, master, muon, sgd, torchao

#: Name of a block -> page. Moments are explained where the plain optimizer is.
PAGES = {
    **dict.fromkeys(
        (
            adam.FIRST,
            adam.SECOND,
            adam.LARGEST,
            adam.STEPS,
            adam.ROOTS,
            adam.DENOMINATORS,
            adam.DECAYED,
            adam.CORRECTIONS,
        ),
        "optimizer-adam",
    ),
    **dict.fromkeys((bnb.ABSMAX, bnb.MAPS), "optimizer-bnb"),
    **dict.fromkeys((torchao.SCALES, torchao.BETWEEN), "optimizer-torchao"),
    **dict.fromkeys(
        (adafactor.ROWS, adafactor.VARIANCE, adafactor.COPY, adafactor.UPDATE, adafactor.SMALL),
        "optimizer-adafactor",
    ),
    **dict.fromkeys((master.MASTERS, master.GRADS), "optimizer-master"),
    **dict.fromkeys((clip.NORMS, clip.SCALER), "optimizer-clip"),
    muon.ITERATION: "optimizer-muon",
    sgd.MOMENTUM: "optimizer-sgd",
    lion.UPDATE: "optimizer-lion",
}
