# ruff: noqa: T201
"""Fine-tunes T5 to summarise with Seq2SeqTrainer, and evaluates by generating."""

import argparse

from datasets import load_dataset
from transformers import (
    AutoModelForSeq2SeqLM,
    AutoTokenizer,
    DataCollatorForSeq2Seq,
    Seq2SeqTrainer,
    Seq2SeqTrainingArguments,
    T5Config,
    T5ForConditionalGeneration,
)

parser = argparse.ArgumentParser()
parser.add_argument("--model", help="a name on the hub; a tiny model otherwise")
parser.add_argument("--batch", type=int, default=2)
parser.add_argument("--length", type=int, default=32)
parser.add_argument("--optimizer", default="adafactor")
args = parser.parse_args()

tokenizer = AutoTokenizer.from_pretrained(args.model or "t5-small")
if args.model:
    model = AutoModelForSeq2SeqLM.from_pretrained(args.model)
else:
    model = T5ForConditionalGeneration(
        T5Config(d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4, decoder_start_token_id=0)
    )
data = load_dataset("billsum", split="train").train_test_split(test_size=0.1)


def tokenize(rows):
    inputs = tokenizer(
        ["summarize: " + text for text in rows["text"]], max_length=args.length, truncation=True
    )
    inputs["labels"] = tokenizer(text_target=rows["summary"], max_length=16, truncation=True)["input_ids"]
    return inputs


data = data.map(tokenize, batched=True, remove_columns=data["train"].column_names)
trainer = Seq2SeqTrainer(
    model=model,
    args=Seq2SeqTrainingArguments(
        output_dir="out",
        eval_strategy="epoch",
        per_device_train_batch_size=args.batch,
        per_device_eval_batch_size=args.batch,
        num_train_epochs=1,
        predict_with_generate=True,
        generation_max_length=8,
        optim=args.optimizer,
        report_to="none",
    ),
    train_dataset=data["train"],
    eval_dataset=data["test"].select(range(4)),
    processing_class=tokenizer,
    data_collator=DataCollatorForSeq2Seq(tokenizer=tokenizer, model=model),
    compute_metrics=lambda predictions: {"length": float((predictions.predictions > 0).sum())},
)
trainer.train()
print("done")
