"""usage: library.py MODEL WANT   (called by library.sh)   The Python package on the demo model; WANT has the greedy answer of
opt4gptq-run. Fails with the first thing that is not as expected."""
import json
import math
import sys

import opt4gptq

PROMPT = "Once upon a time there was"
lines = []
model = opt4gptq.Model(sys.argv[1], note=lines.append, backend="cpu", embeddings=1, n_seqs=4, n_ctx=256)
assert any(line.startswith("machine: cpu") for line in lines), lines

want = open(sys.argv[2]).read().rstrip("\n")
answer = model.generate(PROMPT, max_tokens=32)
assert answer == want, (answer, want)
assert answer.finish_reason == "length" and len(answer.ids) == 32
pieces = []
assert model.generate(PROMPT, max_tokens=32, stream=pieces.append) == want and "".join(pieces) == want
assert model.detokenize(model.tokenize("A small house.", special=False)) == "A small house."
# a stream ends its answer
assert len(model.generate(PROMPT, max_tokens=32, stream=lambda piece: False).ids) == 1


def interrupt(piece):
    raise KeyboardInterrupt


try:
    model.generate(PROMPT, max_tokens=8, stream=interrupt)
    raise AssertionError("the exception of a stream is lost")
except KeyboardInterrupt:
    pass

schema = {"type": "object", "properties": {"n": {"type": "integer", "maximum": 99}}, "required": ["n"],
          "additionalProperties": False}
assert json.loads(model.generate("n:", max_tokens=60, json_schema=json.dumps(schema)))["n"] <= 99
drawn = [model.generate(PROMPT, max_tokens=8, temperature=1.0, seed=seed) for seed in (1, 2, 1)]
assert drawn[0] == drawn[2] != drawn[1]

# a batch: the answers of one by one, a refused prompt among them
prompts = [PROMPT, "The heart", [], "Water", [1, 2, 3]] * 3
seen = []
answers = dict(model.batch(prompts, max_tokens=6, window=4, progress=lambda *n: seen.append(n)))
assert sorted(answers) == list(range(15)) and seen[-1][0] == 15
for index, got in answers.items():
    if prompts[index] == []:
        assert isinstance(got, opt4gptq.Error) and "0 tokens" in str(got)
    else:
        assert got == model.generate(prompts[index], max_tokens=6)
# one that is left early leaves nothing behind
for _ in model.batch(["a", "b", "c"], max_tokens=4):
    break
assert model.generate(PROMPT, max_tokens=32) == want

a, b, c = model.embed(["The cat sleeps.", "The cat sleeps.", "Stocks fell."])
assert a == b != c and math.isclose(sum(x * x for x in a), 1, abs_tol=1e-6)

for call, says in ((lambda: model.generate("x" * 4000), "the context 256"),
                   (lambda: model.generate("x", regex="("), "regex: "),
                   (lambda: model.generate("x", regex="a", grammar="root ::= x"), "exclude each other"),
                   (lambda: model.generate("x", temperature=-1), "temperature"),
                   (lambda: model.generate([10 ** 6]), "not in the vocabulary"),
                   (lambda: model.chat({"role": "user"}), "messages"),
                   (lambda: opt4gptq.Model(sys.argv[1], backend="tpu"), "neither cpu nor gpu"),
                   (lambda: opt4gptq.Model(sys.argv[1], act="i9"), "no arithmetic i9"),
                   (lambda: opt4gptq.Model(sys.argv[1], n_seqs=-1), "out of its range"),
                   (lambda: opt4gptq.Model(sys.argv[1], backend="cpu", variant="none"), "none"),
                   (lambda: opt4gptq.Model("missing"), "No such file")):
    try:
        call()
        raise AssertionError(f"no error that says '{says}'")
    except opt4gptq.Error as e:
        assert says in str(e), (says, str(e))
try:
    model.generate("x", max_token=1)
    raise AssertionError("an unknown parameter is taken")
except TypeError:
    pass
model.close()
try:
    model.generate("x")
    raise AssertionError("a closed model answers")
except opt4gptq.Error:
    pass
