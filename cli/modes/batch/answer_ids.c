#include "cli/modes/batch/answer_ids.h"

#include <stdio.h>
#include <string.h>

void answer_put_id(struct out *o, const char *prefix, const struct record *r)
{
    char s[64];
    snprintf(s, sizeof s, "\"%s-%016llx\"", prefix, (unsigned long long)record_hash(r));
    out_text(o, s);
}

void answer_put_item_id(struct out *o, const char *prefix, const struct record *r, int at)
{
    char s[64];
    uint64_t h = record_hash(r) ^ (uint64_t)at * 0x9e3779b97f4a7c15u;
    snprintf(s, sizeof s, "\"%s_%016llx\"", prefix, (unsigned long long)h);
    out_text(o, s);
}

void answer_put_call_id(struct out *o, const struct job *j, const struct tool_call *c, int index,
                        int at)
{
    static const char letters[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    char s[32] = "call_";
    int is_short = j->calls.syntax->short_ids, n = is_short ? 0 : 5;
    uint64_t h = record_hash(&j->record) ^
                 ((uint64_t)index << 20 | (uint64_t)at) * 0x9e3779b97f4a7c15u;
    h = (h ^ h >> 31) * 0xd6e8feb86659fd93u;
    h ^= h >> 32;
    for (int end = n + (is_short ? CALL_ID_LETTERS : 11); n < end; h /= 62)
        s[n++] = letters[h % 62];
    s[n] = 0;
    out_string(o, *c->id ? c->id : s, strlen(*c->id ? c->id : s));
}
