import numpy as np
from datasets import load_dataset
from transformers import AutoModelForSequenceClassification, AutoTokenizer, Trainer, TrainingArguments


class WeightedTrainer(Trainer):
    def prediction_step(self, model, inputs, prediction_loss_only, ignore_keys=None):
        model.eval()
        return super().prediction_step(model, inputs, prediction_loss_only, ignore_keys)


def compute_metrics(prediction):
    return {"accuracy": float((np.argmax(prediction.predictions, -1) == prediction.label_ids).mean())}


def main():
    name = "distilbert-base-uncased"
    tokenizer = AutoTokenizer.from_pretrained(name)
    model = AutoModelForSequenceClassification.from_pretrained(name, num_labels=2)
    data = load_dataset("imdb").map(lambda row: tokenizer(row["text"], truncation=True), batched=True)
    arguments = TrainingArguments(
        output_dir="out",
        per_device_train_batch_size=32,
        per_device_eval_batch_size=64,
        eval_strategy="epoch",
        eval_accumulation_steps=20,
        bf16=True,
        fsdp="full_shard auto_wrap",
        fsdp_config={"transformer_layer_cls_to_wrap": ["TransformerBlock"]},
    )
    trainer = WeightedTrainer(
        model=model,
        args=arguments,
        train_dataset=data["train"],
        eval_dataset=data["test"],
        processing_class=tokenizer,
        compute_metrics=compute_metrics,
    )
    trainer.train()
    model.eval()
    print(trainer.evaluate())


if __name__ == "__main__":
    main()
