"""The process in which a learner's code runs: started, asked, heard, judged by; and a day checked so."""
