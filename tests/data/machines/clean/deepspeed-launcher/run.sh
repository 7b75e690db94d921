deepspeed --num_gpus 8 train.py --deepspeed ds_z3.json
deepspeed --include localhost:0,1,2,3 eval.py
