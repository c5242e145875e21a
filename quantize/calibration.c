#include "quantize/calibration.h"

#include "core/base/file.h"
#include "core/base/json.h"
#include "core/text/chat.h"
#include "engine/vocabulary.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

enum { DEFAULT_TOKENS = 16384, MAX_TEXT = 1 << 30 };

/* passages of public-domain books, an empty line between them */
__asm__(".section .rodata\n"
        "calibration_text: .incbin \"quantize/calibration.txt\"\n"
        "calibration_text_end: .byte 0\n"
        ".previous\n");
extern const char calibration_text[] __attribute__((visibility("hidden")));
extern const char calibration_text_end[] __attribute__((visibility("hidden")));

struct reader {
    const struct modelfile *model;
    const struct calibration_want *want;
    struct tokenizer *tokenizer;
    struct chat *chat; /* NULL until a record has messages */
    struct tok_ids ids;
    size_t enough; /* tokens */
};

/* ---- files */

/* *text is malloc'd, NUL-terminated, of a file that may be gzip. */
static int read_file(const char *path, char **text, size_t *n, struct err *e)
{
    uint64_t bytes;
    int fd;
    if (file_open(&fd, path, &bytes, e)) return -1;
    gzFile z = gzdopen(fd, "rb");
    if (!z) {
        close(fd);
        return err_memory(e);
    }
    size_t room = bytes + (1 << 16), at = 0;
    char *data = malloc(room + 1);
    int got = 1, rc = data ? 0 : err_memory(e);
    while (!rc && got > 0 && at < MAX_TEXT) {
        if (at == room) {
            char *more = realloc(data, (room *= 2) + 1);
            if (!more) rc = err_memory(e);
            else data = more;
        }
        if (!rc) got = gzread(z, data + at, room - at > 1 << 20 ? 1 << 20 : (unsigned)(room - at));
        if (!rc && got < 0) rc = err_set(e, "%s: is damaged gzip", path);
        if (!rc && got > 0) at += (size_t)got;
    }
    gzclose(z);
    if (rc) {
        free(data);
        return -1;
    }
    data[at] = 0;
    *text = data, *n = at;
    return 0;
}

static int ends_with(const char *s, const char *tail)
{
    size_t n = strlen(s), m = strlen(tail);
    return n >= m && !strcmp(s + n - m, tail);
}

/* ---- texts and conversations */

/* The tokens that the tokenizer puts before a text. */
static int add_before(struct reader *r, struct err *e)
{
    size_t n;
    const int32_t *before = tok_before(r->tokenizer, &n);
    int32_t *more = realloc(r->ids.id, (r->ids.n + n + 1) * sizeof *more);
    if (!more) return err_memory(e);
    r->ids.id = more;
    r->ids.cap = r->ids.n + n + 1;
    for (size_t i = 0; i < n; i++) r->ids.id[r->ids.n++] = before[i];
    return 0;
}

static int add_text(struct reader *r, const char *text, size_t n, struct err *e)
{
    if (r->ids.n && add_before(r, e)) return -1;
    return tok_encode(r->tokenizer, text, n, 0, &r->ids, e);
}

static int add_messages(struct reader *r, const json_t *messages, struct err *e)
{
    json_t *ready;
    char *text;
    size_t n;
    if (!r->chat && chat_open_model(&r->chat, r->model, NULL, 0, 0, e)) return -1;
    if (chat_messages(r->chat, messages, &ready, e)) return -1;
    int rc = chat_render(r->chat, &(struct chat_input){.messages = ready}, &text, &n, e);
    json_decref(ready);
    if (rc) return -1;
    rc = tok_encode(r->tokenizer, text, n, 0, &r->ids, e);
    free(text);
    return rc;
}

static int add_record(struct reader *r, const char *line, size_t n, struct err *e)
{
    json_error_t why;
    json_t *j = json_read(line, n, 0, &why, e);
    if (!j) return -1;
    const json_t *messages = json_object_get(j, "messages"), *text = json_object_get(j, "text");
    if (!messages) messages = json_object_get(j, "conversations");
    int rc = json_is_array(messages) ? add_messages(r, messages, e)
             : json_is_string(text)
                 ? add_text(r, json_string_value(text), json_string_length(text), e)
                 : err_set(e, "the record has neither text nor messages");
    json_decref(j);
    return rc;
}

static int add_lines(struct reader *r, const char *text, size_t n, struct err *e)
{
    const char *end = text + n;
    for (int line = 1; text < end && r->ids.n < r->enough; line++) {
        const char *stop = memchr(text, '\n', (size_t)(end - text));
        if (!stop) stop = end;
        size_t length = (size_t)(stop - text);
        while (length && strchr(" \t\r", text[length - 1])) length--;
        if (length && add_record(r, text, length, e))
            return err_prefix(e, "%s: line %d", r->want->path, line);
        text = stop + 1;
    }
    return 0;
}

/* A long text is encoded in pieces that end at an empty line, as many as are needed. */
static int add_paragraphs(struct reader *r, const char *text, size_t n, struct err *e)
{
    enum { PIECE = 1 << 16 };
    if (n >= 3 && !memcmp(text, "\xef\xbb\xbf", 3)) text += 3, n -= 3;
    while (n && r->ids.n < r->enough) {
        size_t take = n < PIECE ? n : PIECE;
        const char *cut = take < n ? memmem(text + take, n - take, "\n\n", 2) : NULL;
        take = cut ? (size_t)(cut - text) + 2 : n;
        if (tok_encode(r->tokenizer, text, take, 0, &r->ids, e)) return -1;
        text += take, n -= take;
    }
    return 0;
}

static int read_all(struct reader *r, struct err *e)
{
    const char *path = r->want->path;
    char *text = NULL;
    size_t n = 0;
    if (!path)
        return add_paragraphs(r, calibration_text,
                              (size_t)(calibration_text_end - calibration_text), e);
    if (read_file(path, &text, &n, e)) return -1;
    int lines = ends_with(path, ".jsonl") || ends_with(path, ".jsonl.gz");
    int rc = lines ? add_lines(r, text, n, e) : add_paragraphs(r, text, n, e);
    free(text);
    return rc;
}

/* ---- sequences */

/* Cuts the tokens; each sequence begins with what the tokenizer puts before a text. */
static int cut(struct calibration *c, const struct reader *r, struct err *e)
{
    size_t n_before, from = 0, step, wanted = (size_t)r->want->n_tokens;
    const int32_t *before = tok_before(r->tokenizer, &n_before);
    step = (size_t)r->want->sequence;
    if (n_before >= step) n_before = 0;
    size_t whole = r->ids.n / (step - n_before), rest = r->ids.n % (step - n_before),
           there = whole * step + (rest ? rest + n_before : 0);
    const char *name = r->want->path ? r->want->path : "the built-in text";
    if (wanted && there < wanted)
        return err_set(e, "%s: makes %zu tokens, --tokens asks for %zu", name, there, wanted);
    if (!wanted) wanted = there < DEFAULT_TOKENS ? there : DEFAULT_TOKENS;
    if (wanted < 32) return err_set(e, "%s: makes only %zu tokens", name, there);
    *c = (struct calibration){.token = malloc(wanted * sizeof *c->token),
                              .n = (int)wanted,
                              .sequence = r->want->sequence};
    if (!c->token) return err_memory(e);
    for (size_t i = 0; i < wanted; i++)
        c->token[i] = i % step < n_before ? before[i % step] : r->ids.id[from++];
    for (size_t i = 0; i < wanted; i++)
        if (c->token[i] < 0 || c->token[i] >= r->want->vocab)
            return err_set(e, "%s: token %d is none of the model's %d", name, c->token[i],
                           r->want->vocab);
    return 0;
}

int calibration_open(struct calibration *c, const struct modelfile *model,
                     const struct calibration_want *want, struct err *e)
{
    struct reader r = {.model = model,
                       .want = want,
                       .enough = (size_t)(want->n_tokens ? want->n_tokens : DEFAULT_TOKENS)};
    *c = (struct calibration){0};
    int rc = vocabulary_tokenizer(&r.tokenizer, model, e);
    if (!rc && !r.tokenizer)
        rc = err_set(e, "the checkpoint has no tokenizer, which calibration needs: add its files, "
                        "or take --no-calibration");
    if (!rc) rc = read_all(&r, e);
    if (!rc) rc = cut(c, &r, e);
    if (rc) calibration_close(c);
    if (r.chat) chat_close(r.chat);
    if (r.tokenizer) tok_close(r.tokenizer);
    tok_ids_free(&r.ids);
    return rc;
}

void calibration_close(struct calibration *c)
{
    free(c->token);
    *c = (struct calibration){0};
}
