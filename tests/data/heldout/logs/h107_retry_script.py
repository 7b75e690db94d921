import torch

def run(step, batch):
    try:
        return step(batch)
    except torch.OutOfMemoryError as err:
        # typical text: CUDA out of memory. Tried to allocate 98.00 MiB. GPU 0 has a total capacity of 15.77 GiB
        if "CUDA out of memory. Tried to allocate" not in str(err):
            raise
        print("WARNING: ran out of memory, retrying batch")
        torch.cuda.empty_cache()
        return step([b[: len(b) // 2] for b in batch])
