export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True
torchrun --nnodes=2 --nproc_per_node=4 train.py \
    --model_name_or_path acme/small-llama \
    --output_dir out \
    --bf16 True \
    --per_device_train_batch_size 2 \
    --gradient_accumulation_steps 8 \
    --model_max_length 2048 \
    --gradient_checkpointing True \
    --fsdp "full_shard auto_wrap offload" \
    --fsdp_transformer_layer_cls_to_wrap 'LlamaDecoderLayer' \
    --tf32 True --report_to wandb
