"""Classifies pairs of sentences with BERT in a loop of Accelerate: accumulation, clipping, a schedule, metrics."""

import argparse

import torch
from accelerate import Accelerator
from datasets import load_dataset
from transformers import (
    AutoModelForSequenceClassification,
    AutoTokenizer,
    BertConfig,
    BertForSequenceClassification,
    DataCollatorWithPadding,
    get_scheduler,
)

parser = argparse.ArgumentParser()
parser.add_argument("--model", help="a name on the hub; a tiny model otherwise")
parser.add_argument("--batch", type=int, default=4)
parser.add_argument("--length", type=int, default=32)
parser.add_argument("--precision", default="no")
parser.add_argument("--accumulation", type=int, default=2)
args = parser.parse_args()

accelerator = Accelerator(mixed_precision=args.precision, gradient_accumulation_steps=args.accumulation)
tokenizer = AutoTokenizer.from_pretrained(args.model or "bert-base-uncased")
if args.model:
    model = AutoModelForSequenceClassification.from_pretrained(args.model, num_labels=2)
else:
    model = BertForSequenceClassification(
        BertConfig(
            vocab_size=len(tokenizer),
            hidden_size=32,
            intermediate_size=64,
            num_hidden_layers=2,
            num_attention_heads=2,
        )
    )

data = load_dataset("glue", "mrpc")


def tokenize(rows):
    return tokenizer(rows["sentence1"], rows["sentence2"], truncation=True, max_length=args.length)


data = data.map(tokenize, batched=True, remove_columns=["sentence1", "sentence2", "idx"])
data = data.rename_column("label", "labels")
data.set_format("torch")
collate = DataCollatorWithPadding(tokenizer)
training = torch.utils.data.DataLoader(data["train"], batch_size=args.batch, shuffle=True, collate_fn=collate)
validation = torch.utils.data.DataLoader(
    data["validation"].select(range(8)), batch_size=args.batch, collate_fn=collate
)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
schedule = get_scheduler("linear", optimizer, num_warmup_steps=2, num_training_steps=4)
model, optimizer, training, validation, schedule = accelerator.prepare(
    model, optimizer, training, validation, schedule
)
steps = 0
for batch in training:
    model.train()
    with accelerator.accumulate(model):
        loss = model(**batch).loss
        accelerator.backward(loss)
        if accelerator.sync_gradients:
            accelerator.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
    if accelerator.sync_gradients:
        steps += 1
        accelerator.print("step", steps, "loss", loss.item())
    if steps == 4:
        break
model.eval()
right = 0
for batch in validation:
    with torch.no_grad():
        logits = model(**batch).logits
    predictions, labels = accelerator.gather_for_metrics((logits.argmax(-1), batch["labels"]))
    right += (predictions == labels).sum().item()
accelerator.print("right", right)
accelerator.wait_for_everyone()
accelerator.unwrap_model(model).save_pretrained("out", save_function=accelerator.save)
