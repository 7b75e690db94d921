"""What a script asks the hub for, on a machine without a network."""

from __future__ import annotations

import json

import pytest

from oomph.job import models as known
from oomph.tracing.libraries import data, tokenizer
from tests.tracing.libraries.harness import program


def test_a_name_that_is_not_known_is_one_sentence() -> None:
    seen = program(
        """
        from transformers import AutoModelForCausalLM
        AutoModelForCausalLM.from_pretrained("somebody/something-7b")
        """,
        fails=True,
    )
    kind, text = seen.failed
    assert kind == "ModelNotHereError"
    assert "'somebody/something-7b'" in text
    assert "config.json" in text
    assert "\n" not in text


def test_a_local_folder_with_a_configuration_alone() -> None:
    seen = program(
        """
        import tempfile, torch
        from transformers import AutoModelForCausalLM, AutoTokenizer, MistralConfig
        folder = tempfile.mkdtemp()
        MistralConfig(hidden_size=64, intermediate_size=128, num_hidden_layers=1, num_attention_heads=4,
                      num_key_value_heads=4, vocab_size=1000, dtype="bfloat16").save_pretrained(folder)
        model = AutoModelForCausalLM.from_pretrained(folder, device_map="cuda")
        print(model.dtype, model.device, sum(p.numel() for p in model.parameters()))
        print(len(AutoTokenizer.from_pretrained(folder)))
        """
    )
    parameters = 2 * 1000 * 64 + 4 * 64 * 64 + 3 * 64 * 128 + 3 * 64
    assert seen.printed.splitlines() == [f"torch.bfloat16 cuda:0 {parameters}", "1000"]


def test_the_checkpoint_keeps_its_own_dtype_whatever_the_script_asks_for() -> None:
    seen = program(
        """
        import tempfile, torch
        from transformers import AutoConfig, AutoModelForCausalLM, MistralConfig
        folder = tempfile.mkdtemp()
        MistralConfig(hidden_size=256, intermediate_size=512, num_hidden_layers=1, num_attention_heads=4,
                      num_key_value_heads=4, vocab_size=8192, dtype="bfloat16").save_pretrained(folder)
        model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, device_map="cuda")
        print(model.dtype, torch.cuda.max_memory_allocated() - torch.cuda.memory_allocated())
        print(torch.cuda.memory_allocated() // sum(p.numel() for p in model.parameters()))
        for config in (None, AutoConfig.from_pretrained(folder, dtype=torch.float16)):
            AutoModelForCausalLM.from_pretrained(folder, config=config, dtype=torch.float16)
        """
    )
    # Cast on the host on its way, so nothing but the float32 parameters is ever on the GPU (Copy.cu, copy_kernel_cuda).
    assert seen.printed.splitlines() == ["torch.float32 0", "4"]
    stored = [line for line in seen.said.splitlines() if "is taken to hold every weight" in line]
    assert len(stored) == 1
    assert "MistralForCausalLM in bfloat16" in stored[0]


def test_a_safetensors_header_gives_the_dtype_and_no_data_are_read() -> None:
    seen = program(
        """
        import json, os, struct, tempfile, torch
        from transformers import AutoConfig, AutoModelForCausalLM, LlamaConfig
        folder = tempfile.mkdtemp()
        config = LlamaConfig(hidden_size=64, intermediate_size=128, num_hidden_layers=1, num_attention_heads=4,
                             num_key_value_heads=4, vocab_size=1000)
        config.save_pretrained(folder)
        with torch.device("meta"):
            names = AutoModelForCausalLM.from_config(config).state_dict()
        header, at = {}, 0
        for name, tensor in names.items():
            size = 2 * tensor.numel()
            header[name] = {"dtype": "F16", "shape": list(tensor.shape), "data_offsets": [at, at + size]}
            at += size
        text = json.dumps(header).encode()
        path = os.path.join(folder, "model.safetensors")
        with open(path, "wb") as file:
            file.write(struct.pack("<Q", len(text)) + text)
            file.truncate(8 + len(text) + at)
        model = AutoModelForCausalLM.from_pretrained(folder, device_map={"": 0})
        print(model.dtype, torch.cuda.memory_allocated() >= at)
        """
    )
    assert seen.printed == "torch.float16 True\n"
    assert "safetensors headers" in seen.said


def test_dtypes_and_attention_that_are_asked_for() -> None:
    seen = program(
        """
        import torch
        from transformers import AutoModelForCausalLM
        for kwargs in ({}, {"dtype": torch.float32}, {"torch_dtype": "auto"}, {"attn_implementation": "eager"}):
            model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-0.5B", num_hidden_layers=1, **kwargs)
            print(model.dtype, model.config._attn_implementation, model.device)
        """
    )
    assert seen.printed.splitlines() == [
        "torch.bfloat16 sdpa cpu",
        "torch.float32 sdpa cpu",
        "torch.bfloat16 sdpa cpu",
        "torch.bfloat16 eager cpu",
    ]


def test_flan_t5_keeps_its_own_output_layer() -> None:
    seen = program(
        """
        from transformers import AutoModelForSeq2SeqLM
        print(sum(p.numel() for p in AutoModelForSeq2SeqLM.from_pretrained("google/flan-t5-small").parameters()))
        """
    )
    assert int(seen.printed) == 76_961_152  # published


def test_parts_of_stable_diffusion() -> None:
    pytest.importorskip("diffusers", reason="what is tested is diffusers")
    seen = program(
        """
        import json, torch
        from diffusers import AutoencoderKL, UNet2DConditionModel
        from transformers import CLIPTextModel
        name = "stable-diffusion-v1-5/stable-diffusion-v1-5"
        models = [UNet2DConditionModel.from_pretrained(name, subfolder="unet"),
                  AutoencoderKL.from_pretrained(name, subfolder="vae"),
                  CLIPTextModel.from_pretrained(name, subfolder="text_encoder"),
                  UNet2DConditionModel.from_pretrained("stabilityai/stable-diffusion-xl-base-1.0", subfolder="unet")]
        print(json.dumps([sum(p.numel() for p in model.parameters()) for model in models]))
        """
    )
    assert json.loads(seen.printed) == [859_520_964, 83_653_863, 123_060_480, 2_567_463_684]  # published


def test_the_tokenizer_that_stands_in() -> None:
    pytest.importorskip("tokenizers", reason="what is tested is a tokenizer of that library")
    pytest.importorskip("transformers", reason="what is tested is a tokenizer of that library")
    model = known.find("google-bert/bert-base-uncased")
    assert model is not None
    assert model.tokenizer is not None
    made = tokenizer.build(model.tokenizer, tokenizer.longest_input(model.config), model.name)
    assert len(made) == 30522
    assert made.model_max_length == 512
    ids = made(["12345678", "123"], padding=True)["input_ids"]
    piece = ids[0][1]
    assert ids == [[101, piece, piece, 102], [101, piece, 102, 0]]
    assert piece not in made.all_special_ids
    pair = made("1234", "5678")
    assert pair["input_ids"] == [101, piece, 102, piece, 102]
    assert pair["token_type_ids"] == [0, 0, 0, 1, 1]


def test_chat_templates_mark_what_the_assistant_says() -> None:
    pytest.importorskip("transformers", reason="what is tested is a tokenizer of that library")
    model = known.find("meta-llama/Llama-3.1-8B-Instruct")
    assert model is not None
    assert model.tokenizer is not None
    made = tokenizer.build(model.tokenizer, None, model.name)
    talk = [{"role": "user", "content": "1234"}, {"role": "assistant", "content": "12345678"}]
    seen = made.apply_chat_template(talk, return_dict=True, return_assistant_tokens_mask=True)
    # The turn is cut as "\n<|assistant|>\n12345678": its content, letters 15 to 22, lies in three pieces of four. Then
    # the end of the turn.
    assert sum(seen["assistant_masks"]) == 3 + 1


def test_columns_of_data_sets() -> None:
    assert data.find("IMDB", None) == {"text": "text", "label": ["neg", "pos"]}
    assert data.find("glue", "mrpc") is not None
    assert data.find("glue", "unheard of") is None
    assert data.find("nobody/nothing", None) is None


def test_data_sets_that_stand_in_and_that_cannot() -> None:
    seen = program(
        """
        import json
        from datasets import load_dataset
        with open("rows.jsonl", "w") as file:
            file.write(json.dumps({"text": "mine"}) + "\\n")
        try:
            print(load_dataset("json", data_files="rows.jsonl", split="train")[0])
        except Exception as error:
            print(type(error), error)
        imdb = load_dataset("imdb")
        print(sorted(imdb), len(imdb["train"].shuffle(seed=1).select(range(1000))), len(imdb["train"][0]["text"]))
        load_dataset("nobody/nothing", split="train")
        """,
        fails=True,
    )
    lines = seen.printed.splitlines()
    assert lines[0] == "{'text': 'mine'}"
    assert lines[1] == "['test', 'train', 'validation'] 1000 32768"
    kind, text = seen.failed
    assert kind == "DatasetNotHereError"
    assert "'nobody/nothing'" in text
