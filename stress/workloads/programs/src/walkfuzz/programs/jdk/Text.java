package walkfuzz.programs.jdk;

import java.util.HashMap;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

import walkfuzz.programs.Checks;
import walkfuzz.programs.Program;
import walkfuzz.programs.Rng;

/** Writes a log, then finds what it wrote by regular expressions, splitting, replacing and formatting. */
public final class Text implements Program {
    private static final int LINES = 300;
    private static final Pattern LINE = Pattern.compile("(?<time>\\d{2}:\\d{2}) \\[(?<level>INFO|WARN|ERROR)\\] user=(\\w+?)(\\d+) (?:took (\\d+) ms)?");
    private static final String[] LEVELS = {"INFO", "WARN", "ERROR"};

    @Override
    public void round(Rng rng, Checks checks) {
        StringBuilder log = new StringBuilder();
        int[] levels = new int[LEVELS.length];
        long took = 0;
        Map<String, Integer> users = new HashMap<>();
        for (int i = 0; i < LINES; i++) {
            int level = rng.below(LEVELS.length);
            int user = rng.below(20);
            int time = rng.below(1000);
            levels[level]++;
            took += time;
            users.merge("user" + user, 1, Integer::sum);
            log.append(String.format("%02d:%02d [%s] user=user%d took %d ms%n", i / 60, i % 60, LEVELS[level], user, time));
        }
        String text = log.toString();
        int[] found = new int[LEVELS.length];
        long sum = 0;
        Map<String, Integer> seen = new HashMap<>();
        Matcher matcher = LINE.matcher(text);
        while (matcher.find()) {
            for (int level = 0; level < LEVELS.length; level++) {
                found[level] += matcher.group("level").equals(LEVELS[level]) ? 1 : 0;
            }
            sum += Long.parseLong(matcher.group(5));
            seen.merge(matcher.group(3) + matcher.group(4), 1, Integer::sum);
        }
        checks.equal("levels", levels, found);
        checks.equal("milliseconds", took, sum);
        checks.same("users", users, seen);
        long split = 0;
        for (String line : text.split("\\R")) {
            String[] words = line.split(" ");
            split += Integer.parseInt(words[words.length - 2]);
        }
        checks.equal("milliseconds by splitting", took, split);
        checks.same("text there and back", text, text.replaceAll("user=(user\\d+)", "<$1>").replaceAll("<(user\\d+)>", "user=$1"));
        checks.same("reversed twice", text, new StringBuilder(new StringBuilder(text).reverse()).reverse().toString());
        // Backtracks a long way before it gives up.
        checks.holds("no match", !Pattern.matches("(a+a+)+b", "aaaaaaaaaaaaaaaa"));
        checks.equal("length in UTF-8", text.length() + 2L * LINES, text.replace("[", "\u20ac").getBytes(java.nio.charset.StandardCharsets.UTF_8).length);
    }
}
