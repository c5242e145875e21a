/* unit_constraint.c: grammars that are compiled beside the run: one that takes long holds up
 * neither others nor the end. Compiling is this file's own (tests.mk wraps grammar_open): the text
 * "long" takes until the test lets it end. */
#include "engine/constraint.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

int __real_grammar_open(struct grammar **g, const struct grammar_spec *spec, const struct vocab *v,
                        struct err *e);
int __wrap_grammar_open(struct grammar **g, const struct grammar_spec *spec, const struct vocab *v,
                        struct err *e);
int __wrap_vocabulary_open(struct vocab **v, const struct vocabulary_source *source, struct err *e);

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int n_long, may_end; /* that are being compiled */

int __wrap_grammar_open(struct grammar **g, const struct grammar_spec *spec, const struct vocab *v,
                        struct err *e)
{
    const struct grammar_spec letters = {.kind = GRAMMAR_REGEX, .text = "[a-z]+", .bytes = 6};
    int is_long = spec->bytes >= 4 && !memcmp(spec->text, "long", 4);
    pthread_mutex_lock(&lock);
    n_long += is_long;
    pthread_cond_broadcast(&changed);
    while (is_long && !may_end) pthread_cond_wait(&changed, &lock);
    n_long -= is_long;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    return __real_grammar_open(g, &letters, v, e);
}

static const char *letter(void *arg, int32_t id, size_t *bytes)
{
    *bytes = 1;
    return (const char *)arg + id;
}

int __wrap_vocabulary_open(struct vocab **v, const struct vocabulary_source *source, struct err *e)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz";
    const struct vocab_source all = {26, letter, (void *)(uintptr_t)letters};
    (void)source;
    return vocab_open(v, &all, e);
}

static struct constraint *ask(struct constraints *c, const char *text)
{
    const struct grammar_spec spec = {.kind = GRAMMAR_REGEX, .text = text, .bytes = strlen(text)};
    struct constraint *k;
    struct err e = {0};
    if (constraint_ask(c, &spec, &k, &e)) fail_msg("%s", e.msg);
    return k;
}

static struct constraints *open_all(void)
{
    static const struct vocabulary_source source = {.vocab = 26};
    struct constraints *c;
    struct err e = {0};
    may_end = 0;
    if (constraints_open(&c, &source, &e)) fail_msg("%s", e.msg);
    return c;
}

/* Until N long ones are being compiled. */
static void wait_for_long(int n)
{
    pthread_mutex_lock(&lock);
    while (n_long != n) pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
}

static void end_long(void)
{
    pthread_mutex_lock(&lock);
    may_end = 1;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    wait_for_long(0);
}

/* Others are compiled while some take long, and these then, too. */
static void a_long_one_holds_up_no_others(void **state)
{
    static const char *const texts[] = {"long 1", "long 2", "long 3", "short 1", "short 2"};
    enum { LONG = 3, N = 5 };
    struct constraints *c = open_all();
    struct constraint *k[N];
    struct grammar *g = NULL;
    struct err e = {0};
    (void)state;
    for (int i = 0; i < N; i++) {
        k[i] = ask(c, texts[i]);
        if (i < LONG) wait_for_long(i + 1);
    }
    for (int i = LONG; i < N; i++) {
        assert_int_equal(constraint_get(c, k[i], CONSTRAINT_WAIT, &g, &e), 1);
        assert_non_null(g);
    }
    for (int i = 0; i < LONG; i++) {
        assert_int_equal(constraint_get(c, k[i], CONSTRAINT_NO_WAIT, &g, &e), 0);
        assert_int_equal(constraint_get(c, k[i], CONSTRAINT_BRIEFLY, &g, &e), 0);
    }
    end_long();
    for (int i = 0; i < N; i++) {
        assert_int_equal(constraint_get(c, k[i], CONSTRAINT_WAIT, &g, &e), 1);
        constraint_drop(c, k[i]);
    }
    constraints_close(c);
}

/* A run ends though some take long, and as many more wait; nothing is compiled behind the end. */
static void the_end_waits_for_none(void **state)
{
    enum { LONG = 4, MORE = 4 };
    static struct constraints *volatile kept; /* its memory stays, and is no leak */
    struct constraints *c = kept = open_all();
    char text[32];
    (void)state;
    for (int i = 0; i < LONG + MORE; i++) {
        snprintf(text, sizeof text, "long %d", i);
        ask(c, text);
        if (i < LONG) wait_for_long(i + 1);
    }
    constraints_stop(c);
    constraints_close(c); /* returns: the alarm ends the test otherwise */
    assert_int_equal(n_long, LONG);
    end_long();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_long_one_holds_up_no_others),
        cmocka_unit_test(the_end_waits_for_none),
    };
    alarm(600);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
