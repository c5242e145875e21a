"""GPTQ language models on CPUs and GPUs, with the same bits everywhere: libopt4gptq by ctypes.

    model = opt4gptq.Model("tinyllama.safetensors")
    print(model.generate("The capital of France is", max_tokens=32))
    print(model.chat([{"role": "user", "content": "Hello"}]))
    for index, answer in model.batch(prompts, max_tokens=64, progress=print):
        ...
    vectors = model.embed(["one text", "another"])

An answer depends on model, prompt and parameters alone, not on what it is computed with. A model
belongs to one thread at a time.
"""
import ctypes as c
import json
import os
import pathlib

__all__ = ["Model", "Answer", "Error", "version"]

FINISH = ("stop", "length", "aborted")


class Error(Exception):
    """What the library says; kind: 1 failed, 2 memory, 3 input, 4 device."""

    def __init__(self, kind, text):
        super().__init__(text)
        self.kind = kind


class Answer(str):
    """The text of an answer, with `ids` and `finish_reason` (stop, length)."""

    ids = ()
    finish_reason = None


class _Error(c.Structure):
    _fields_ = [("kind", c.c_int), ("text", c.c_char * 1024)]


_NOTE = c.CFUNCTYPE(None, c.c_void_p, c.c_char_p)
_TOKEN = c.CFUNCTYPE(c.c_int, c.c_void_p, c.c_int32, c.POINTER(c.c_char), c.c_size_t)
_VECTOR = c.CFUNCTYPE(None, c.c_void_p, c.POINTER(c.c_float), c.c_int)
_DONE = c.CFUNCTYPE(None, c.c_void_p, c.c_int, c.c_char_p)


class _EngineOptions(c.Structure):
    _fields_ = [("size", c.c_size_t)] + \
        [(name, c.c_char_p) for name in ("backend", "act", "kv", "variant", "library", "helper")] + \
        [(name, c.c_int) for name in ("device", "threads", "n_seqs", "n_batch", "n_ctx")] + \
        [("memory", c.c_uint64), ("embeddings", c.c_int), ("note", _NOTE), ("self", c.c_void_p)]


class _Params(c.Structure):
    _fields_ = [("size", c.c_size_t), ("max_tokens", c.c_int)] + \
        [(name, c.c_double) for name in ("temperature", "top_p", "min_p", "repetition_penalty",
                                         "presence_penalty", "frequency_penalty")] + \
        [(name, c.c_int) for name in ("top_k", "min_tokens", "ignore_eos")] + \
        [("seed", c.c_uint64)] + \
        [(name, c.c_char_p) for name in ("json_schema", "regex", "grammar")] + \
        [("embedding", c.c_int)]


class _Sink(c.Structure):
    _fields_ = [("size", c.c_size_t), ("token", _TOKEN), ("vector", _VECTOR), ("done", _DONE)]


def _load():
    beside = pathlib.Path(__file__).parent / "libopt4gptq.so.0"
    lib = c.CDLL(str(beside) if beside.exists() else "libopt4gptq.so.0")
    lib.o4_version.restype = c.c_char_p
    p, error = c.c_void_p, c.POINTER(_Error)
    for name, types in {
            "o4_model_open": [c.POINTER(p), c.c_char_p, error], "o4_model_close": [p],
            "o4_tokenize": [p, c.c_char_p, c.c_size_t, c.c_int, c.POINTER(c.POINTER(c.c_int32)),
                            c.POINTER(c.c_size_t), error],
            "o4_detokenize": [p, c.POINTER(c.c_int32), c.c_size_t, c.POINTER(p),
                              c.POINTER(c.c_size_t), error],
            "o4_chat": [p, c.c_char_p, c.POINTER(p), c.POINTER(c.c_size_t), error],
            "o4_free": [p],
            "o4_engine_open": [c.POINTER(p), p, c.POINTER(_EngineOptions), error],
            "o4_engine_close": [p],
            "o4_submit": [p, c.POINTER(_Params), c.POINTER(c.c_int32), c.c_size_t,
                          c.POINTER(_Sink), p, error],
            "o4_step": [p, error], "o4_abort": [p, error]}.items():
        getattr(lib, name).argtypes = types
    return lib


_lib = _load()


def version():
    return _lib.o4_version().decode()


def _call(function, *arguments):
    error = _Error()
    rc = function(*arguments, c.byref(error))
    if rc < 0:
        raise Error(error.kind, error.text.decode(errors="replace"))
    return rc


def _fill(struct, values):
    """A struct of options from keywords; None stands for the default."""
    known = {name: kind for name, kind in struct._fields_}
    s = struct(size=c.sizeof(struct))
    for name, value in values.items():
        if name not in known or name in ("size", "self", "note"):
            raise TypeError(f"unknown option {name}")
        if value is None:
            continue
        setattr(s, name, os.fsencode(value) if known[name] is c.c_char_p else value)
    return s


class _Job:
    """A request under way: what the library calls, and what it has brought."""

    def __init__(self, stream=None):
        self.text, self.ids, self.vector, self.finish, self.failure = [], [], None, None, None
        self.raised = None

        def on_token(_, token, text, n):
            try:
                piece = text[:n]
                if token >= 0:
                    self.ids.append(token)
                self.text.append(piece)
                return 1 if stream and piece and stream(piece.decode()) is False else 0
            except BaseException as e:  # a callback of C cannot raise: _run does
                self.raised = e
                return 1

        def on_vector(_, x, n):
            self.vector = x[:n]

        def on_done(_, why, message):
            self.finish, self.failure = FINISH[why], message

        self._keep = _TOKEN(on_token), _VECTOR(on_vector), _DONE(on_done)
        self.sink = _Sink(c.sizeof(_Sink), *self._keep)

    def answer(self):
        if self.raised:
            raise self.raised
        if self.failure:
            raise Error(1, self.failure.decode(errors="replace"))
        answer = Answer(b"".join(self.text).decode(errors="replace"))
        answer.ids, answer.finish_reason = tuple(self.ids), self.finish
        return answer


class Model:
    """A model file and its engine. Options are those of struct o4_engine_options in opt4gptq.h
    (backend="cpu", act="i16", kv="int8", threads=4, n_seqs=16, embeddings=1, ..); note is called
    with lines about what was chosen."""

    def __init__(self, path, note=None, **options):
        self._model, self._engine = c.c_void_p(), c.c_void_p()
        self._options = _fill(_EngineOptions, options)
        self._note = _NOTE(lambda _, line: note(line.decode(errors="replace"))) if note else _NOTE()
        self._options.note = self._note
        _call(_lib.o4_model_open, c.byref(self._model), os.fsencode(path))
        try:
            _call(_lib.o4_engine_open, c.byref(self._engine), self._model, c.byref(self._options))
        except Error:
            self.close()
            raise

    def close(self):
        engine, model = self._engine, self._model
        self._engine, self._model = c.c_void_p(), c.c_void_p()
        _lib.o4_engine_close(engine)
        _lib.o4_model_close(model)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def _opened(self):
        if not self._model:
            raise Error(3, "the model is closed")
        return self._model

    def tokenize(self, text, special=True):
        data, ids, n = text.encode(), c.POINTER(c.c_int32)(), c.c_size_t()
        _call(_lib.o4_tokenize, self._opened(), data, len(data), int(special), c.byref(ids),
              c.byref(n))
        try:
            return ids[:n.value]
        finally:
            _lib.o4_free(c.cast(ids, c.c_void_p))

    def _text(self, function, *arguments):
        text, n = c.c_void_p(), c.c_size_t()
        _call(function, self._opened(), *arguments, c.byref(text), c.byref(n))
        try:
            return c.string_at(text, n.value).decode(errors="replace")
        finally:
            _lib.o4_free(text)

    def detokenize(self, ids):
        return self._text(_lib.o4_detokenize, (c.c_int32 * len(ids))(*ids), len(ids))

    def chat_prompt(self, messages):
        """The prompt of MESSAGES by the model's chat template."""
        return self._text(_lib.o4_chat, json.dumps(messages).encode())

    def _submit(self, prompt, parameters, stream=None):
        ids = self.tokenize(prompt) if isinstance(prompt, str) else list(prompt)
        job = _Job(stream)
        _call(_lib.o4_submit, self._engine, c.byref(parameters), (c.c_int32 * len(ids))(*ids),
              len(ids), c.byref(job.sink), None)
        return job

    def _run(self, jobs):
        """Steps until all have ended; where that fails, none is left behind."""
        try:
            while _call(_lib.o4_step, self._engine):
                pass
        except BaseException:
            if self._engine:
                _lib.o4_abort(self._engine, c.byref(_Error()))
            raise

    def generate(self, prompt, stream=None, **parameters):
        """The answer to a prompt (text or ids). Parameters are those of struct o4_params; stream is
        called with each piece of text, and ends the answer by returning False."""
        self._opened()
        job = self._submit(prompt, _fill(_Params, parameters), stream)
        self._run([job])
        return job.answer()

    def chat(self, messages, stream=None, **parameters):
        prompt = self.tokenize(self.chat_prompt(messages), special=False)
        return self.generate(prompt, stream, **parameters)

    def embed(self, texts, **parameters):
        """A vector for each text; the model was opened with embeddings=1."""
        self._opened()
        p = _fill(_Params, dict(parameters, embedding=1))
        jobs = []
        try:
            jobs = [self._submit(text, p) for text in ([texts] if isinstance(texts, str) else texts)]
        finally:
            self._run(jobs)
        for job in jobs:
            job.answer()
        return [job.vector for job in jobs]

    def batch(self, prompts, progress=None, window=1024, **parameters):
        """Yields (index, answer) as answers end. A prompt is text, ids or a list of messages; an
        answer is an Error where its prompt is refused. progress is called with (ended, started)."""
        self._opened()
        p = _fill(_Params, parameters)
        source, running, more, ended, started = enumerate(prompts), {}, True, 0, 0
        try:
            while more or running:
                while more and len(running) < window:
                    item = next(source, None)
                    if item is None:
                        more = False
                        break
                    started += 1
                    index, prompt = item
                    try:
                        if isinstance(prompt, (list, tuple)) and prompt and isinstance(prompt[0], dict):
                            prompt = self.tokenize(self.chat_prompt(prompt), special=False)
                        running[index] = self._submit(prompt, p)
                    except Error as e:
                        ended += 1
                        yield index, e
                _call(_lib.o4_step, self._engine)
                for index in [i for i, job in running.items() if job.finish]:
                    job = running.pop(index)
                    ended += 1
                    try:
                        answer = job.answer()
                    except Error as e:
                        answer = e
                    if progress:
                        progress(ended, started)
                    yield index, answer
        finally:
            if running and self._engine:
                _lib.o4_abort(self._engine, c.byref(_Error()))
