#include "core/grammar/digits.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int digits_is_long(const json_t *v) { return json_long(v) != NULL; }
int digits_is(const json_t *v) { return json_is_number(v) || digits_is_long(v); }

int digits_has_point(const json_t *v)
{
    const char *digits = json_long(v);
    return digits ? strpbrk(digits, ".eE") != NULL : json_is_real(v);
}

int digits_have_room(const json_t *v)
{
    struct decimal d;
    const char *key;
    json_t *one;
    size_t i;
    if (digits_is(v)) return !digits_of(v, &d);
    json_array_foreach ((json_t *)(uintptr_t)v, i, one)
        if (!digits_have_room(one)) return 0;
    json_object_foreach ((json_t *)(uintptr_t)v, key, one)
        if (!digits_have_room(one)) return 0;
    return 1;
}

int digits_of(const json_t *v, struct decimal *d)
{
    char text[32];
    const char *digits = json_long(v);
    if (digits) return decimal_read(d, digits, strlen(digits));
    if (json_is_real(v)) return decimal_of(d, json_real_value(v));
    int n = snprintf(text, sizeof text, "%lld", (long long)json_integer_value(v));
    return decimal_read(d, text, (size_t)n);
}

int digits_order(const json_t *a, const json_t *b)
{
    struct decimal x, y;
    if (json_equal((json_t *)(uintptr_t)a, (json_t *)(uintptr_t)b)) return 0;
    if (digits_of(a, &x) || digits_of(b, &y)) return DIGITS_UNKNOWN;
    return decimal_order(&x, &y);
}

int digits_plain(const json_t *v, char text[DIGITS_TEXT])
{
    struct decimal d;
    if (digits_of(v, &d)) return -1;
    snprintf(text, DIGITS_TEXT, "%s%s%s%s", d.is_negative ? "-" : "", d.whole, *d.digits ? "." : "",
             d.digits);
    return 0;
}

static json_t *plain(const json_t *v);

/* Numbers of a value in the form that has all digits, those that there is room for. */
static json_t *plain_number(const json_t *v)
{
    char text[DIGITS_TEXT];
    return digits_plain(v, text) ? json_incref((json_t *)(uintptr_t)v)
                                 : json_pack("{s:s}", JSON_LONG, text);
}

static json_t *plain(const json_t *v)
{
    const char *key;
    json_t *one, *x;
    size_t i;
    if (digits_is(v)) return plain_number(v);
    if (json_is_array(v)) {
        x = json_array();
        json_array_foreach ((json_t *)(uintptr_t)v, i, one) json_array_append_new(x, plain(one));
        return x;
    }
    if (!json_is_object(v)) return json_incref((json_t *)(uintptr_t)v);
    x = json_object();
    json_object_foreach ((json_t *)(uintptr_t)v, key, one) json_object_set_new(x, key, plain(one));
    return x;
}

static char *dump(const json_t *v, size_t sorted)
{
    static const char begins[] = "{\"" JSON_LONG "\":\"", ends[] = "\"}";
    json_t *x = plain(v);
    char *text = x ? json_dumps(x, JSON_COMPACT | JSON_ENCODE_ANY | sorted) : NULL, *to = text,
         *from = text;
    json_decref(x);
    while (text && *from) { /* quotes within strings are escaped: none has this text */
        if (strncmp(from, begins, sizeof begins - 1)) {
            *to++ = *from++;
            continue;
        }
        for (from += sizeof begins - 1; *from != '"';) *to++ = *from++;
        from += sizeof ends - 1;
    }
    if (text) *to = 0;
    return text;
}

char *digits_dump(const json_t *v) { return dump(v, 0); }
char *digits_key(const json_t *v) { return dump(v, JSON_SORT_KEYS); }
