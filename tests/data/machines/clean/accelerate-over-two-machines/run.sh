accelerate launch --multi_gpu --num_machines 2 --machine_rank 0 --num_processes 16 --main_process_ip 10.0.0.4 --main_process_port 29500 train.py
