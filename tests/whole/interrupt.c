/* interrupt.c: Ctrl-C while one prompt is answered. Works on models/demo; usage: interrupt
 * BUILD_DIR.
 */
#include "tests/harness.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char run_bin[512], dir[] = "/tmp/opt4gptq-interrupt-XXXXXX", model[600], file_a[600];

/* Ctrl-C: statistics, exit 4, the text so far ends with a newline. */
static void interrupt(void)
{
    int out[2];
    if (pipe(out)) exit(2);
    pid_t pid = fork();
    if (!pid) {
        dup2(out[1], 1);
        dup2(out[1], 2);
        execv(run_bin, (char *[]){run_bin, "-m", model, "-p", "Once", "--temp", "0", "--ignore-eos",
                                  "--cpu", "ref", NULL});
        _exit(127);
    }
    close(out[1]);
    static char text[65536];
    size_t n = 0;
    for (ssize_t got;
         n + 1 < sizeof text && (got = read(out[0], text + n, sizeof text - 1 - n)) > 0;) {
        if (n < 40 && n + (size_t)got >= 40) kill(pid, SIGINT);
        n += (size_t)got;
    }
    int status;
    waitpid(pid, &status, 0);
    check(WIFEXITED(status) && WEXITSTATUS(status) == 4 && strstr(text, "tok/s"),
          "Ctrl-C ends with statistics and exit 4", NULL);
    check(strstr(text, "\nstopping after this step") != NULL, "Ctrl-C is answered", NULL);
    close(out[0]);
}

/* The same while a long prompt is being computed: ends between two steps, no half file of logits.
 */
static void interrupt_prompt(void)
{
    char ids[4096] = "1";
    for (int i = 0; i < 1000; i++) strcat(ids, ",5");
    int err[2];
    if (pipe(err)) exit(2);
    pid_t pid = fork();
    if (!pid) {
        dup2(err[1], 2);
        execv(run_bin, (char *[]){run_bin, "-m", model, "--prompt-ids", ids, "-n", "1", "-b", "1",
                                  "--format", "ids", "--cpu", "ref", "--logits-out", file_a, NULL});
        _exit(127);
    }
    close(err[1]);
    char part[700];
    struct stat st = {0};
    int status = 0;
    snprintf(part, sizeof part, "%s.part", file_a);
    while (stat(part, &st) || st.st_size < 20000) /* it has written the first tokens' logits */
        if (waitpid(pid, &status, WNOHANG)) break;
        else usleep(1000);
    kill(pid, SIGINT);
    char text[4096];
    size_t n = 0;
    for (ssize_t got;
         n + 1 < sizeof text && (got = read(err[0], text + n, sizeof text - 1 - n)) > 0;)
        n += (size_t)got;
    text[n] = 0;
    close(err[0]);
    waitpid(pid, &status, 0);
    check(WIFEXITED(status) && WEXITSTATUS(status) == 4 &&
              strstr(text, "stopping after this step") && strstr(text, "stopped after"),
          "Ctrl-C within the prompt", NULL);
    check(access(file_a, F_OK), "a stopped run leaves no logits file", NULL);
}

int main(int argc, char **argv)
{
    if (argc < 2 || !mkdtemp(dir)) return 2;
    snprintf(run_bin, sizeof run_bin, "%s/opt4gptq-run", argv[1]);
    snprintf(model, sizeof model, "%s/demo.safetensors", dir);
    snprintf(file_a, sizeof file_a, "%s/logits", dir);
    shell_ok("%s/opt4gptq-convert -q models/demo %s", argv[1], model);
    interrupt();
    interrupt_prompt();
    shell_ok("rm -r %s", dir);
    return report("interrupt");
}
