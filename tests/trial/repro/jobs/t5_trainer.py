"""T5 with Seq2SeqTrainer in pure bf16, Adafactor and checkpoints: an encoder's texts are longer than the decoder's."""

import torch
from transformers import Seq2SeqTrainer, Seq2SeqTrainingArguments, T5Config, T5ForConditionalGeneration

rows = [
    {
        "input_ids": torch.randint(0, 32128, (320,)),
        "attention_mask": torch.ones(320, dtype=torch.int64),
        "labels": torch.randint(0, 32128, (96,)),
    }
    for _ in range(24)
]
config = T5Config(
    d_model=256, d_ff=1024, num_layers=3, num_heads=4, vocab_size=32128, decoder_start_token_id=0
)
model = T5ForConditionalGeneration(config)
trainer = Seq2SeqTrainer(
    model=model.to(torch.bfloat16),
    args=Seq2SeqTrainingArguments(
        output_dir="out",
        per_device_train_batch_size=4,
        max_steps=3,
        optim="adafactor",
        gradient_checkpointing=True,
        save_strategy="no",
        report_to="none",
    ),
    train_dataset=rows,
)
trainer.train()
