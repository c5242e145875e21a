#include "cli/text/show.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int put_raw(const char *text, size_t n, struct err *e)
{
    if (!n) return 0;
    if (fwrite(text, 1, n, stdout) == n && !fflush(stdout)) return 0;
    return err_sys(e, "cannot write to stdout");
}

int show_put(const char *text, size_t n, struct err *e)
{
    struct out shown = {0};
    if (!isatty(1)) return put_raw(text, n, e);
    out_shown(&shown, text, n);
    int rc = out_failed(&shown) ? err_memory(e) : put_raw(shown.p, shown.n, e);
    out_free(&shown);
    return rc;
}

enum show_reasoning show_reasoning_of(const struct options *o)
{
    if (!o->chat && !o->conversation) return SHOW_RAW;
    if (!o->reasoning || !strcmp(o->reasoning, "keep")) return SHOW_KEEP;
    return !strcmp(o->reasoning, "hide") ? SHOW_HIDE : SHOW_ONLY;
}

int show_open(struct show *s, const struct show_how *how, const struct tok_ids *prompt,
              const char *text, size_t n, struct err *e)
{
    *s = (struct show){.how = *how};
    if (!s->how.tags) s->how.tags = reasoning_tags_of(NULL, 0);
    reasoning_open(&s->parts, s->how.tags, text ? text : "", text ? n : 0);
    if (how->stop && stop_open(&s->stop, how->stop->v, how->stop->n, e)) return -1;
    return tok_stream_open_after(&s->stream, how->tokenizer, !how->special, prompt->id, prompt->n,
                                 e);
}

void show_close(struct show *s)
{
    tok_stream_close(s->stream);
    stop_close(&s->stop);
    reasoning_close(&s->parts);
    out_free(&s->answer);
    out_free(&s->thoughts);
    *s = (struct show){0};
}

static int set_dim(struct show *s, int dim, struct err *e)
{
    if (!s->how.terminal || s->dim == dim) return 0;
    s->dim = dim;
    return put_raw(dim ? "\033[2m" : "\033[0m", 4, e);
}

/* White space before what is printed alone would be left over from the other part. */
static void skip_white(const struct show *s, const char **text, size_t *n)
{
    while (!s->began && *n && strchr(" \n\r\t", **text)) ++*text, --*n;
}

static int show_part(struct show *s, enum reasoning_part part, const char *text, size_t n,
                     struct err *e)
{
    const enum show_reasoning how = s->how.reasoning;
    if (part != REASONING_TAG)
        out_bytes(part == REASONING_TEXT ? &s->thoughts : &s->answer, text, n);
    if (how == SHOW_KEEP && part == REASONING_TAG && s->how.tags->sign) { /* not for people */
        if (set_dim(s, 0, e)) return -1;
        return s->thoughts.n && !s->answer.n && !s->parted++ ? show_put("\n\n", 2, e) : 0;
    }
    if (how == SHOW_KEEP) return set_dim(s, part != REASONING_ANSWER, e) || show_put(text, n, e);
    if (part != (how == SHOW_HIDE ? REASONING_ANSWER : REASONING_TEXT)) return 0;
    if (s->thoughts.n) skip_white(s, &text, &n);
    s->began |= n > 0;
    return show_put(text, n, e);
}

/* Text that is final. */
static int show_text(struct show *s, const char *text, size_t n, struct err *e)
{
    enum reasoning_part part;
    if (s->how.reasoning == SHOW_RAW) return show_put(text, n, e);
    if (reasoning_push(&s->parts, text, n, e)) return -1;
    while (reasoning_next(&s->parts, &part, &text, &n))
        if (show_part(s, part, text, n, e)) return -1;
    return out_failed(&s->answer) || out_failed(&s->thoughts) ? err_memory(e) : 0;
}

/* A special token that is a tag of reasoning, or a part of one, is text here. */
static int show_tag(struct show *s, int32_t id, struct err *e)
{
    char *text;
    size_t n;
    if (s->how.special || s->how.reasoning == SHOW_RAW || !s->how.tags->sign) return 0;
    if (!tok_is_special(s->how.tokenizer, id)) return 0;
    if (tok_decode_inside(s->how.tokenizer, id, &text, &n, e)) return -1;
    int rc = reasoning_has_token(s->how.tags, text) ? show_text(s, text, n, e) : 0;
    free(text);
    return rc;
}

int show_token(struct show *s, int32_t id, struct err *e)
{
    const char *piece, *certain;
    size_t n, n_certain;
    if (show_tag(s, id, e) || tok_stream_push(s->stream, id, &piece, &n, e)) return -1;
    int stopped = stop_push(&s->stop, piece, n, &certain, &n_certain, e);
    if (stopped < 0 || show_text(s, certain, n_certain, e)) return -1;
    return stopped;
}

int show_end(struct show *s, int stopped, struct err *e)
{
    const char *piece, *certain;
    size_t n;
    if (!stopped) {
        if (tok_stream_flush(s->stream, &piece, &n, e)) return -1;
        stopped = stop_push(&s->stop, piece, n, &certain, &n, e);
        if (stopped < 0 || show_text(s, certain, n, e)) return -1;
        if (!stopped) {
            stop_flush(&s->stop, &certain, &n);
            if (show_text(s, certain, n, e)) return -1;
        }
    }
    reasoning_end(&s->parts);
    if (show_text(s, "", 0, e) || set_dim(s, 0, e)) return -1;
    return show_put("\n", 1, e);
}
