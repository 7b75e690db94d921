from tests.evidence.series.text import MIB, figures, gib, samples


def test_detectron2():
    (one,) = samples(
        "[03/11 14:02:40 d2.utils.events]:  eta: 5:19:02  iter: 19  total_loss: 48.00  time: 1.11  "
        "data_time: 0.03  lr: 1e-4  max_mem: 13822M"
    )
    assert (one.what, one.value.bytes, one.step) == ("max_allocated", 13822 * MIB, 19)


def test_mmengine():
    line = (
        "2023/05/01 10:00:00 - mmengine - INFO - Epoch(train)  [1][  50/1000]  lr: 1.0e-04  eta: 1:00:00  "
        "time: 0.3500  data_time: 0.0100  memory: 13822  loss: 0.1000"
    )
    (one,) = samples(line)
    assert (one.what, one.value.bytes, one.context) == ("max_allocated", 13822 * MIB, "train")


def test_mmcv():
    (one,) = samples(
        "2022-05-01 10:00:00,000 - mmdet - INFO - Epoch [1][50/1000]\tlr: 1.0e-04, eta: 1:00:00, time: 0.350, "
        "data_time: 0.010, memory: 3822, loss: 0.1000"
    )
    assert (one.value.bytes, one.step) == (3822 * MIB, 50)


def test_bare_memory_number_elsewhere_has_no_unit():
    assert figures("memory: 13822, cores: 12") == []


def test_metric_logger():
    (one,) = samples(
        "Epoch: [0]  [ 100/5000]  eta: 0:10:12  lr: 0.000100  loss: 2.1010 (2.4000)  time: 0.3130  data: 0.0100  "
        "max mem: 4053"
    )
    assert (one.what, one.value.bytes, one.step) == ("max_allocated", 4053 * MIB, 100)
    (evaluation,) = samples(
        "Test:  [ 10/500]  eta: 0:01:12  loss: 2.1  time: 0.31  data: 0.01  max mem: 4053"
    )
    assert evaluation.context == "eval"


def test_swin():
    (one,) = samples(
        "[2021-04-13 10:00:00 swin] (main.py 226): INFO Train: [0/300][10/1251]\teta 0:10:12 lr 0.000001\t "
        "time 0.50 (0.60)\tloss 6.9 (6.9)\tgrad_norm 1.2 (1.3)\tmem 9876MB"
    )
    assert (one.what, one.value.bytes, one.step) == ("max_allocated", 9876 * MIB, 10)


def test_yolo_row():
    (one,) = samples(
        "      26/99      23.4G    0.033     0.027    0.011        146       1280: 100%|###| 412/412"
    )
    assert (one.what, one.value.bytes, one.step) == ("reserved", gib(23.4), None)
    # Older releases divided by 1E9.
    assert one.value.low_bytes <= 23_400_000_000


def test_yolo_header_and_summary_are_no_rows():
    assert figures("      Epoch    GPU_mem   box_loss   cls_loss   dfl_loss  Instances       Size") == []
    assert figures("  12/40      3.5G  of files copied") == []
